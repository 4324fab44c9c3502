"use strict";
// Moves and zooms the timeline. The server draws each stretch, as it does for
// pages without a script; here are mouse, fingers, keys and labels.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("plot");
  if (!box) return;
  const numMonths = Number(box.dataset.months);
  const MIN_MONTHS = 6; // that are seen at least
  const WAIT = 150; // milliseconds after which a movement has ended
  const MIN_DRAG = 5; // pixels; less is a click
  let range = [Number(box.dataset.first), Number(box.dataset.last)];
  let timer = 0;
  let request = null;

  const label = document.createElement("output");
  label.className = "tip";
  label.hidden = true;
  box.after(label);

  function clamp(first, last) {
    const size = Math.min(Math.max(last - first, MIN_MONTHS), numMonths - 1);
    const start = Math.min(Math.max(first, 0), numMonths - 1 - size);
    return [Math.round(start), Math.round(start + size)];
  }

  // The label beside the pointer replaces that of the browser.
  function prepare() {
    for (const title of box.querySelectorAll("svg title")) {
      title.parentNode.dataset.label = title.textContent;
      title.remove();
    }
    box.dataset.seen = range.join(" ");
  }

  async function load() {
    if (request) request.abort();
    request = new AbortController();
    const address = new URLSearchParams(box.dataset.query);
    address.set("first", range[0]);
    address.set("last", range[1]);
    try {
      const response = await fetch(`/timeline?${address}`,
        { signal: request.signal });
      if (!response.ok) return;
      const text = await response.text();
      const part = new DOMParser().parseFromString(text, "text/html");
      box.replaceChildren(...part.body.childNodes);
      prepare();
    } catch {
      // Another movement came before, or the server is away.
    }
  }

  function move(first, last) {
    const [before, size] = [range[0], range[1] - range[0]];
    range = clamp(first, last);
    const svg = box.querySelector("svg");
    if (range[1] - range[0] === size) {
      const share = (before - range[0]) / size;
      const shift = Number(svg.dataset.shift || 0) + share;
      svg.dataset.shift = shift;
      svg.style.transform = `translateX(${shift * 100}%)`;
    }
    clearTimeout(timer);
    timer = setTimeout(load, WAIT);
  }

  function zoom(factor, share = 0.5) {
    const [first, last] = range;
    const middle = first + share * (last - first);
    move(middle - (middle - first) * factor, middle + (last - middle) * factor);
  }

  function pan(share) {
    const step = Math.sign(share) *
      Math.max(Math.abs(share) * (range[1] - range[0]), 1);
    move(range[0] + step, range[1] + step);
  }

  const keys = {
    ArrowLeft: () => pan(-0.25),
    ArrowRight: () => pan(0.25),
    "+": () => zoom(0.6),
    "=": () => zoom(0.6),
    "-": () => zoom(1 / 0.6),
    Home: () => move(0, numMonths - 1),
    Enter: () => {
      const address = new URLSearchParams(box.dataset.query);
      address.delete("page");
      address.set("from", `@${range[0]}`);
      address.set("to", `@${range[1]}`);
      window.location.assign(`/?${address}`);
    },
  };
  box.addEventListener("keydown", (event) => {
    const act = !event.ctrlKey && !event.metaKey && keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  const place = (x) => {
    const area = box.getBoundingClientRect();
    return (x - area.left) / area.width;
  };
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(event.deltaX / box.clientWidth);
    } else if (event.ctrlKey || event.shiftKey) {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event.clientX));
    }
  }, { passive: false });

  // One finger moves, two zoom; a drag does not open a link.
  const fingers = new Map();
  let moved = 0;
  box.addEventListener("pointerdown", (event) => {
    if (!fingers.size) moved = 0;
    fingers.set(event.pointerId, event.clientX);
  });
  box.addEventListener("pointermove", (event) => {
    showLabel(event);
    if (!fingers.has(event.pointerId)) return;
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event.clientX);
    const after = [...fingers.values()];
    if (after.length === 2) {
      const [spread, width] = [before, after].map(([a, b]) => Math.abs(a - b));
      moved = MIN_DRAG;
      if (width) zoom(spread / width, place((after[0] + after[1]) / 2));
    } else if (after.length === 1) {
      moved += Math.abs(after[0] - before[0]);
      if (moved >= MIN_DRAG) pan((before[0] - after[0]) / box.clientWidth);
    }
  });
  for (const name of ["pointerup", "pointercancel"]) {
    window.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
  box.addEventListener("click", (event) => {
    if (moved >= MIN_DRAG) event.preventDefault();
  }, true);
  box.addEventListener("dragstart", (event) => event.preventDefault());

  function showLabel(event) {
    const part = event.target.closest("[data-label]");
    label.hidden = !part;
    if (!part) return;
    label.textContent = part.dataset.label;
    const edge = box.parentNode.getBoundingClientRect();
    const room = edge.width - label.offsetWidth;
    const x = event.clientX - edge.left - label.offsetWidth / 2;
    label.style.left = `${Math.max(Math.min(x, room), 0)}px`;
    label.style.top = `${box.offsetTop - label.offsetHeight - 2}px`;
  }
  box.addEventListener("pointerleave", () => { label.hidden = true; });

  box.classList.add("live");
  box.tabIndex = 0;
  box.setAttribute("role", "application");
  box.setAttribute("aria-label", box.dataset.help);
  prepare();
});
