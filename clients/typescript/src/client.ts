import { Caller, type ClientOptions } from "./caller.ts";
import { Resources } from "./resources.ts";

/** A client of one service with one API key: every resource of the API is an attribute. */
export class Client extends Resources {
  /** Sends requests to routes that the library lacks. */
  readonly caller: Caller;

  constructor(options: ClientOptions) {
    const caller = new Caller(options);
    super(caller);
    this.caller = caller;
  }
}
