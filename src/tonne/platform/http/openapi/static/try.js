import { offerTestKey } from "./test-key.js";

// Swagger UI takes many seconds for a document of OpenAPI 3.1, and a moment for the same one as OpenAPI 3.0.
function older(node) {
  if (Array.isArray(node)) return node.map(older);
  if (node === null || typeof node !== "object") return node;
  const found = {};
  for (const [key, value] of Object.entries(node)) {
    if (key === "examples" && Array.isArray(value)) [found.example] = value;
    else if (key === "const") found.enum = [value];
    else found[key] = key === "example" ? value : older(value);
  }
  if (!Array.isArray(found.anyOf)) return found;
  const others = found.anyOf.filter((each) => each.type !== "null");
  if (others.length === found.anyOf.length) return found;
  const { anyOf, ...rest } = found;
  if (others.length > 1) return { ...rest, anyOf: others, nullable: true };
  return others[0].$ref ? { ...rest, allOf: others, nullable: true } : { ...others[0], ...rest, nullable: true };
}

const { webhooks, ...document31 } = await (await fetch("/openapi.json")).json();
const ui = SwaggerUIBundle({
  spec: { ...older(document31), openapi: "3.0.3" },
  dom_id: "#docs",
  deepLinking: true,
  // A click on a group, or a link to an operation, shows it. The API reference has the objects.
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  tryItOutEnabled: true,
  persistAuthorization: false,
  validatorUrl: null,
});
await offerTestKey(document.getElementById("key"), (key) => ui.preauthorizeApiKey("api_key", key));
