// Readers who are signed in can put a test key into the open page. It is kept nowhere else.
"use strict";

// Fills the place with a button for each organisation. Calls `use` with the key. False if the reader cannot make keys.
export async function offerTestKey(place, use) {
  const answer = await fetch("/dashboard/documentation-key", { redirect: "manual" });
  if (!answer.ok) return false;
  const { form_token, organisations } = await answer.json();
  place.className = "test-key";
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  for (const { id, name } of organisations) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "md-button";
    button.textContent = `Use a test key of ${name} on this page`;
    button.addEventListener("click", async () => {
      for (const each of place.querySelectorAll("button")) each.disabled = true;
      const body = new URLSearchParams({ form_token });
      const made = await fetch(`/dashboard/test/${id}/documentation-key`, { method: "POST", body, redirect: "manual" });
      const found = made.type === "opaqueredirect" ? {} : await made.json();
      if (made.ok) {
        use(found.secret);
        const until = new Date(found.expires_at).toLocaleString();
        status.textContent = `This page uses a test key of ${name}, which works until ${until}. Reloading removes it.`;
      } else {
        status.textContent = found.error ? found.error.message : "You are not signed in any more. Sign in, then reload this page.";
      }
    });
    place.append(button, " ");
  }
  place.append(status);
  return organisations.length > 0;
}
