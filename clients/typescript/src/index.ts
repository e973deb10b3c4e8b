export { type CallOptions, type CallRequest, Caller, type ClientOptions, type CreateOptions, type Repeat, VERSION } from "./caller.ts";
export { Client } from "./client.ts";
export {
  ApiError,
  BadRequest,
  Conflict,
  ConnectionFailed,
  type FieldError,
  Forbidden,
  NotFound,
  RateLimited,
  ServiceFailed,
  TimedOut,
  TonneError,
  Unauthorised,
  UnexpectedResponse,
} from "./errors.ts";
export { type Claimed, type InboxStore, MemoryStore, WebhookInbox } from "./inbox.ts";
export type * as models from "./models.ts";
export { type Page, Pages } from "./pages.ts";
export { type VerifyOptions, WebhookInvalid, parseEvents, verifyWebhook } from "./webhooks.ts";
