/** Base class of all errors of this library. */
export class TonneError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/**
 * The service could not be reached, or the connection broke; the reason is in `cause`. All retries failed, or the request
 * could not be repeated: it is then unknown whether it was carried out.
 */
export class ConnectionFailed extends TonneError {}

/** The service did not respond in time. */
export class TimedOut extends ConnectionFailed {}

/** The response is not one of the service: a proxy may have sent it, or the base URL is wrong. */
export class UnexpectedResponse extends TonneError {}

/** One of the things that are wrong with a request. `field` is a path such as `bundle_selection[0].percentage`. */
export interface FieldError {
  code: string;
  message: string;
  field?: string;
}

/** The service refused the request. The meaning of a `code` never changes. */
export class ApiError extends TonneError {
  readonly status: number;
  readonly code: string;
  /** What is wrong, for people, without status and code. */
  readonly reason: string;
  readonly field: string | undefined;
  /** Everything that is wrong with the request. */
  readonly errors: readonly FieldError[];
  /** Quote it when you ask the operator for help. */
  readonly requestId: string | null;
  readonly retryAfterMs: number | null;

  constructor(status: number, errors: readonly [FieldError, ...FieldError[]], requestId: string | null, retryAfterMs: number | null) {
    const [first] = errors;
    super(`${first.message} (${status} ${first.code}, request ${requestId})`);
    this.status = status;
    this.code = first.code;
    this.reason = first.message;
    this.field = first.field;
    this.errors = errors;
    this.requestId = requestId;
    this.retryAfterMs = retryAfterMs;
  }
}

/** 400 and 422: the request is invalid. `errors` lists every fault with its field. */
export class BadRequest extends ApiError {}
/** 401: the API key is missing, wrong, expired or revoked. */
export class Unauthorised extends ApiError {}
/** 403: the key may not do this. */
export class Forbidden extends ApiError {}
/** 404: it does not exist, or belongs to another account or mode. */
export class NotFound extends ApiError {}
/** 409: the state of the resource does not allow this, such as `quote_expired`. */
export class Conflict extends ApiError {}
/** 429: too many requests. `retryAfterMs` says how long to wait. */
export class RateLimited extends ApiError {}
/** 5xx: the service failed, or is not available for a moment. */
export class ServiceFailed extends ApiError {}

const BY_STATUS: Record<number, typeof ApiError> = {
  400: BadRequest,
  401: Unauthorised,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  422: BadRequest,
  429: RateLimited,
};

interface Fault {
  error_code: string;
  message: string;
  field?: string;
}

/** The error that a response describes. */
export function apiError(status: number, document: unknown, requestId: string | null, retryAfterMs: number | null): TonneError {
  const faults = (document as { errors?: Fault[] } | null)?.errors;
  const [first, ...others] = Array.isArray(faults) ? faults.map(fieldError) : [];
  if (first === undefined) {
    return new UnexpectedResponse(`The response has the status ${status} and no error of the service. Check baseUrl.`);
  }
  const kind = BY_STATUS[status] ?? (status >= 500 ? ServiceFailed : ApiError);
  return new kind(status, [first, ...others], requestId, retryAfterMs);
}

function fieldError(fault: Fault): FieldError {
  const plain = { code: fault.error_code, message: fault.message };
  return fault.field === undefined || fault.field === null ? plain : { ...plain, field: fault.field };
}
