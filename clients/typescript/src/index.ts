/** A client of oh-daemon; `protocol` has the types of everything that crosses the wire. */

export * from "./connection.js";
export * from "./conversation.js";
export * from "./protocol.js";
export * from "./start.js";
export * from "./store.js";
