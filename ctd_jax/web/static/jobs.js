"use strict";
// Keeps the page of a job up to date; without it the page is loaded again.
(() => {
  const box = document.getElementById("job");
  if (!box || !box.dataset.part) return;
  const SECONDS = 2;

  async function update() {
    try {
      const response = await fetch(box.dataset.part);
      if (response.ok) {
        const text = await response.text();
        const part = new DOMParser().parseFromString(text, "text/html");
        const state = part.querySelector(".state").className;
        const before = box.querySelector(".state").className;
        if (state !== before && !/ (waiting|running)$/.test(state)) {
          location.reload(); // the buttons are other ones
          return;
        }
        const isOpen = box.querySelector("details")?.open;
        box.replaceChildren(...part.body.childNodes);
        const log = box.querySelector("details");
        if (log && isOpen) log.open = true;
      }
    } catch {
      // The server is being started anew; it will answer again.
    }
    setTimeout(update, 1000 * SECONDS);
  }
  setTimeout(update, 1000 * SECONDS);
})();
