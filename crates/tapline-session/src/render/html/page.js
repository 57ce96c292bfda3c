"use strict";
(() => {
  const main = document.querySelector(".cards");
  const box = document.createElement("div");
  box.className = "find";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Search this page";
  input.setAttribute("aria-label", "Search this page");
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  box.append(input, count);
  main.prepend(box);
  const cards = [...main.querySelectorAll(".card")];
  let found = [];
  let at = -1;
  const mark = (words) => {
    if (!window.Highlight || !CSS.highlights) return;
    const ranges = [];
    for (const card of words ? found : []) {
      const walk = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
      while (ranges.length < 2000 && walk.nextNode()) {
        const text = walk.currentNode.data.toLowerCase();
        // Some letters have another length in lower case.
        if (text.length !== walk.currentNode.length) continue;
        for (let from = text.indexOf(words); from >= 0; from = text.indexOf(words, from + words.length)) {
          const range = new Range();
          range.setStart(walk.currentNode, from);
          range.setEnd(walk.currentNode, from + words.length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  };
  const search = () => {
    const words = input.value.trim().toLowerCase();
    found = words ? cards.filter((card) => card.textContent.toLowerCase().includes(words)) : [];
    const shown = new Set(found);
    for (const card of cards) card.hidden = words !== "" && !shown.has(card);
    count.textContent = words ? `${found.length} of ${cards.length}` : "";
    at = -1;
    mark(words);
  };
  const next = (by) => {
    if (!found.length) return;
    at = (at + by + found.length) % found.length;
    for (const part of found[at].querySelectorAll("details")) {
      if (part.textContent.toLowerCase().includes(input.value.trim().toLowerCase())) part.open = true;
    }
    found[at].scrollIntoView({ block: "center" });
    count.textContent = `${at + 1} of ${found.length}`;
  };
  let waiting;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      input.value = "";
      search();
      input.blur();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
    }
  });
  // What a link leads to is shown, whatever the search hides.
  window.addEventListener("hashchange", () => {
    const card = document.getElementById(location.hash.slice(1));
    if (card) card.hidden = false;
  });
})();
