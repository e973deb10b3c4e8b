// Adds up the shares of a mix while one types. The server checks them in any case.
"use strict";

for (const mix of document.querySelectorAll("[data-mix]")) {
  const sum = mix.querySelector("output");
  const inputs = [...mix.querySelectorAll("input.share")];
  const show = () => {
    // In hundredths: 33.33 three times must not become 99.99000000000001.
    const hundredths = inputs.map((input) => Math.round(Number(input.value.replace(",", ".").replace("%", "")) * 100));
    const whole = hundredths.reduce((total, part) => total + part, 0);
    sum.hidden = !inputs.some((input) => input.value.trim());
    const off = 10000 - whole;
    sum.classList.toggle("off", off !== 0);
    const percent = (value) => (value / 100).toLocaleString(document.documentElement.dataset.locale);
    if (Number.isNaN(whole)) sum.textContent = "A share is not a number";
    else if (off === 0) sum.textContent = "Adds up to 100 %";
    else sum.textContent = off > 0 ? `${percent(off)} % left` : `${percent(-off)} % too much`;
  };
  mix.addEventListener("input", show);
  show();
}
