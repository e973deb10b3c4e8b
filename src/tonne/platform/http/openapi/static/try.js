import { offerTestKey } from "./test-key.js";

window.addEventListener("load", () => {
  const ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#docs",
    deepLinking: true,
    // All operations and objects at once would take seconds. A click on a group, or a link to an operation, shows it.
    docExpansion: "none",
    defaultModelsExpandDepth: -1,
    tryItOutEnabled: true,
    persistAuthorization: false,
    validatorUrl: null,
    onComplete: () => offerTestKey(document.getElementById("key"), (key) => ui.preauthorizeApiKey("api_key", key)),
  });
});
