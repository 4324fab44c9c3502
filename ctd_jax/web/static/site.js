"use strict";
// Help for writing: the pages are read without it.

// Enter asks; with Shift it is a new line.
for (const box of document.querySelectorAll("form.ask textarea")) {
  box.addEventListener("keydown", (event) => {
    const asks = event.key === "Enter" && !event.shiftKey && !event.isComposing;
    if (asks && box.form.method === "get") {
      event.preventDefault();
      box.form.requestSubmit();
    }
  });
}
