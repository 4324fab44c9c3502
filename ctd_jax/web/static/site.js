"use strict";
// Help for reading and writing: the pages are read without it.

// Size and direction of the text, as this browser has kept them.
const TYPE = { size: "medium", writing: "horizontal" };
for (const name of Object.keys(TYPE)) {
  try {
    TYPE[name] = localStorage.getItem(name) || TYPE[name];
  } catch {
    // A browser that keeps nothing shows the usual type.
  }
  document.documentElement.dataset[name] = TYPE[name];
}

function showTypeSwitches() {
  const box = document.querySelector("details.type");
  if (!box) return;
  box.hidden = false;
  for (const input of box.querySelectorAll("input")) {
    input.checked = TYPE[input.name] === input.value;
    input.addEventListener("change", () => {
      TYPE[input.name] = input.checked ? input.value : "horizontal";
      document.documentElement.dataset[input.name] = TYPE[input.name];
      try {
        localStorage.setItem(input.name, TYPE[input.name]);
      } catch {
        // It lasts as long as the page.
      }
    });
  }
}

// A menu closes by Escape and by a click beside it.
function closeMenus() {
  const isMenu = "header.site details[open]";
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector(isMenu);
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(isMenu)) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
}

// Enter asks; with Shift it is a new line.
function askOnEnter() {
  for (const box of document.querySelectorAll("form.ask textarea")) {
    box.addEventListener("keydown", (event) => {
      const asks =
        event.key === "Enter" && !event.shiftKey && !event.isComposing;
      if (asks && box.form.method === "get") {
        event.preventDefault();
        box.form.requestSubmit();
      }
    });
  }
}

// Chromium draws the value of a field before the font of its rare characters is
// there, and not again unless the font of the field changes. Han characters have
// no kerning.
document.fonts.addEventListener("loadingdone", () => {
  for (const field of document.querySelectorAll("textarea, input")) {
    field.style.fontKerning = "none";
  }
});

// Files that are too large are refused before they are sent.
function checkFiles() {
  for (const input of document.querySelectorAll("input[data-limit]")) {
    input.addEventListener("change", () => {
      const size = [...input.files].reduce((sum, file) => sum + file.size, 0);
      const isLarge = size > Number(input.dataset.limit);
      input.setCustomValidity(isLarge ? input.dataset.message : "");
      input.reportValidity();
    });
  }
}

// Buttons that copy a text, where the browser allows it.
function copyTexts() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      await navigator.clipboard.writeText(text);
      button.textContent = button.dataset.done;
    });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  copyTexts();
  showTypeSwitches();
  closeMenus();
  askOnEnter();
  checkFiles();
});
