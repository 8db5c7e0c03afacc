// Light or dark, before anything is drawn: what was chosen here, else what the system says.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let here = null; // what was chosen on this page, if storage is switched off
  const chosen = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return here;
    }
  };
  const dark = () => (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    root.dataset.theme = dark() ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      button.setAttribute("aria-pressed", String(dark()));
      button.hidden = false;
    }
  };
  show();
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme")?.addEventListener("click", () => {
      here = dark() ? "light" : "dark";
      try {
        localStorage.setItem("theme", here);
      } catch {
        // it holds for this page
      }
      show();
    });
  });
})();
