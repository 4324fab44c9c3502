"use strict";
// Shows what a date is read as while it is written.
(() => {
  const box = document.querySelector("input[data-reading]");
  const output = document.getElementById("reading");
  if (!box || !output) return;
  const PAUSE = 350; // milliseconds after the last key
  let timer = 0;
  let latest = 0;

  async function read() {
    const number = ++latest;
    const address = new URL(box.dataset.reading, location.href);
    for (const name of ["work", "first", "last", "date"]) {
      address.searchParams.set(name, box.form.elements[name].value);
    }
    try {
      const response = await fetch(address);
      if (!response.ok || number !== latest) return;
      const text = await response.text();
      const part = new DOMParser().parseFromString(text, "text/html");
      output.replaceChildren(...part.body.childNodes);
    } catch {
      // The server answers when the form is sent.
    }
  }

  for (const name of ["date", "last"]) {
    box.form.elements[name].addEventListener("input", (event) => {
      if (event.isComposing) return;
      clearTimeout(timer);
      timer = setTimeout(read, PAUSE);
    });
  }
})();
