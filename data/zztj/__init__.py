"""資治通鑑 by months: a chronicle that ChunQiuTR was not made from."""
