import ctd_jax

benchmark = ctd_jax.load_benchmark("chunqiutr/mini")  # ctd-jax build ... first
retriever = ctd_jax.Retriever.load("runs/tiny")
query = benchmark.queries["test"][0]
for hit in retriever.search([query.text], k=3)[0]:
  print(f"{hit.score:8.3f}  {hit.record_id}  {hit.text}")

result = ctd_jax.evaluate(retriever, benchmark)
print(result.table())
