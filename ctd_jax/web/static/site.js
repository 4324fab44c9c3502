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

// Files that are too large are refused before they are sent.
for (const input of document.querySelectorAll("input[type=file][data-limit]")) {
  input.addEventListener("change", () => {
    const size = [...input.files].reduce((sum, file) => sum + file.size, 0);
    const isLarge = size > Number(input.dataset.limit);
    input.setCustomValidity(isLarge ? input.dataset.message : "");
    input.reportValidity();
  });
}
