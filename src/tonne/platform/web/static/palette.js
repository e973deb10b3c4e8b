// The command palette: Ctrl K opens a dialog that lists the results of the search page while one types.
// In a function, because all scripts of a page share their names.
"use strict";

(() => {
  const form = document.querySelector(".side-search");
  const WAIT_MS = 150;

  const open = () => {
    const dialog = document.createElement("dialog");
    dialog.className = "palette";
    dialog.setAttribute("aria-label", "Search");
    const input = document.createElement("input");
    input.type = "search";
    input.setAttribute("aria-label", "Go to a page, an order, a certificate or a customer");
    input.placeholder = "Go to…";
    input.autocomplete = "off";
    const results = document.createElement("div");
    results.setAttribute("aria-live", "polite");
    dialog.append(input, results);
    document.body.append(dialog);

    let timer = 0;
    let asked = 0;
    const look = async () => {
      const question = (asked += 1);
      const url = new URL(form.action);
      url.searchParams.set("q", input.value);
      try {
        const answer = await fetch(url, { redirect: "error" });
        const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("jumps");
        if (question !== asked || !found) return;
        results.replaceChildren(found);
      } catch {
        results.textContent = "The server did not answer. Try again.";
      }
    };
    const links = () => [...results.querySelectorAll("a")];
    const move = (step) => {
      const all = links();
      const place = all.indexOf(document.activeElement) + step;
      (place < 0 || place >= all.length ? input : all[place]).focus();
    };
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(look, WAIT_MS);
    });
    dialog.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (event.key === "ArrowUp" && document.activeElement === input) links().at(-1)?.focus();
        else move(event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Enter" && document.activeElement === input) {
        event.preventDefault();
        links()[0]?.click();
      }
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
    look();
  };

  if (form) {
    document.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !document.querySelector("dialog.palette")) {
        event.preventDefault();
        open();
      }
    });
  }
})();
