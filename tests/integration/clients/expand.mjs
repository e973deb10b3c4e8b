// Expands a document as JSON-LD in safe mode, which refuses words without a meaning. Fetches nothing.
import { readFileSync } from "node:fs";
import { contexts } from "@digitalbazaar/credentials-context";
import jsonld from "jsonld";

const [file, own] = process.argv.slice(2);
const document = JSON.parse(readFileSync(file));
const documentLoader = async (url) => {
  const known = contexts.get(url) ?? (url.endsWith("/context-v1.json") ? JSON.parse(readFileSync(own)) : undefined);
  if (known === undefined) throw new Error(`There is no context ${url}.`);
  return { contextUrl: null, documentUrl: url, document: known };
};
const expanded = await jsonld.expand(document, { documentLoader, safe: true });
const quads = await jsonld.toRDF(document, { documentLoader, safe: true });
console.log(JSON.stringify({ expanded, quads: quads.length }));
