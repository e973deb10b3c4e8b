// Updates the price while the visitor types. Without JavaScript, a button does the same.
"use strict";

const form = document.querySelector("form[data-price]");
const place = document.getElementById("price");
let wanted = "";
let timer = 0;

async function showPrice() {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (["by", "amount", "bundle_id", "signed_query"].includes(name)) fields.append(name, value);
  }
  if (!fields.has("bundle_id")) fields.append("bundle_id", "");
  wanted = fields.toString();
  const asked = wanted;
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(`${form.dataset.price}?${asked}`);
    if (answer.ok && asked === wanted) place.innerHTML = await answer.text();
  } catch {
    // Offline: the payment page shows the price again before anything is charged.
  } finally {
    if (asked === wanted) place.removeAttribute("aria-busy");
  }
}

form.addEventListener("input", (event) => {
  if (!["by", "amount", "bundle_id"].includes(event.target.name)) return;
  clearTimeout(timer);
  timer = setTimeout(showPrice, 200);
});
