// Forms with a passkey: the browser signs a challenge of the server, then the form is sent as any other.
"use strict";

const CANCELLED = "No passkey was used. Try again, or sign in another way.";
const KNOWN = "This device has a passkey for you already. Use another device, or remove the old passkey first.";

const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const encode = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

async function challenge(form) {
  const body = new URLSearchParams({ form_token: form.elements.form_token.value });
  const answer = await fetch(form.dataset.options, { method: "POST", body });
  const type = answer.headers.get("content-type") || "";
  if (!type.startsWith("application/json")) throw new Error("This page has expired. Reload it and try again.");
  const options = await answer.json();
  if (!answer.ok) throw new Error(options.error ? options.error.message : "Reload this page and try again.");
  options.challenge = decode(options.challenge);
  for (const list of [options.allowCredentials, options.excludeCredentials]) {
    for (const each of list || []) each.id = decode(each.id);
  }
  if (options.user) options.user.id = decode(options.user.id);
  return options;
}

async function sign(form) {
  const publicKey = await challenge(form);
  const found = form.dataset.create
    ? await navigator.credentials.create({ publicKey })
    : await navigator.credentials.get({ publicKey });
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (found.response[name]) response[name] = encode(found.response[name]);
  }
  return JSON.stringify({ id: found.id, rawId: encode(found.rawId), type: found.type, response });
}

function explain(error) {
  if (error.name === "NotAllowedError" || error.name === "AbortError") return CANCELLED;
  if (error.name === "InvalidStateError") return KNOWN;
  return error.message;
}

for (const form of document.querySelectorAll("form.passkey")) {
  const button = form.querySelector("button");
  const fault = form.querySelector("[role=alert]");
  const show = (text) => {
    fault.textContent = text;
    fault.hidden = !text;
  };
  form.hidden = !window.PublicKeyCredential && location.origin === form.dataset.origin;
  if (location.origin !== form.dataset.origin) {
    button.disabled = true;
    show(`Passkeys work only at ${form.dataset.origin}. Open this page there.`);
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    show("");
    button.disabled = true;
    try {
      form.elements.credential.value = await sign(form);
      form.submit();
    } catch (error) {
      show(explain(error));
      button.disabled = false;
    }
  });
}
