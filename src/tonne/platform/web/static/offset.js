// Updates the price while the visitor types, converts the amount when the unit changes, and fills in suggested amounts.
// Without JavaScript, buttons do the same.
"use strict";

(() => {
  const form = document.querySelector("form[data-price]");
  const place = document.getElementById("price");
  const total = document.getElementById("bar-total");
  const amount = form.elements.namedItem("amount");
  const hasUnits = form.querySelector(".units") !== null;
  let unit = new FormData(form).get("by");
  let wanted = "";
  let timer = 0;

  function mark() {
    for (const chip of form.querySelectorAll(".chip")) {
      const isShown = chip.value.startsWith(`${unit}:`);
      chip.setAttribute("aria-pressed", String(isShown && chip.dataset.amount === amount.value));
    }
  }

  // What the page shows now. The server converts an amount whose unit has changed since then.
  function remember(by, text) {
    form.elements.namedItem("shown_by").value = by;
    form.elements.namedItem("shown_amount").value = text;
  }

  async function showPrice() {
    const fields = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (["by", "amount", "bundle_id", "signed_query", "shown_by", "shown_amount"].includes(name)) fields.append(name, value);
    }
    if (!fields.has("bundle_id")) fields.append("bundle_id", "");
    wanted = fields.toString();
    const asked = wanted;
    place.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${form.dataset.price}?${asked}`);
      if (answer.ok && asked === wanted) {
        place.innerHTML = await answer.text();
        const answered = place.firstElementChild.dataset;
        if (hasUnits && fields.get("amount") === amount.value) {
          if (fields.get("shown_by") !== fields.get("by")) amount.value = answered.amount;
          remember(answered.by, amount.value);
          mark();
        }
        total.textContent = place.querySelector("dd.total")?.textContent ?? "–";
      }
    } catch {
      // Offline: the payment page shows the price again before anything is charged.
    } finally {
      if (asked === wanted) place.removeAttribute("aria-busy");
    }
  }

  function later(delay) {
    clearTimeout(timer);
    timer = setTimeout(showPrice, delay);
  }

  form.addEventListener("input", (event) => {
    const name = event.target.name;
    if (name === "by") {
      remember(unit, amount.value);
      unit = event.target.value;
      mark();
      later(0);
    } else if (name === "amount" || name === "bundle_id") {
      if (name === "amount") {
        remember(unit, amount.value);
        mark();
      }
      later(200);
    }
  });

  form.addEventListener("click", (event) => {
    const chip = event.target.closest(".chip");
    if (!chip) return;
    event.preventDefault();
    amount.value = chip.dataset.amount;
    remember(unit, amount.value);
    mark();
    later(0);
  });
})();
