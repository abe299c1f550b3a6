/** A daemon behind a WebSocket, where each text is one message; a client of a daemon has streams of frames. */

import { type DaemonClient, connect } from "oh-daemon-client/connection";
import { frame } from "oh-daemon-client/framing";
import type { Notification } from "oh-daemon-client/store";

const NOTIFICATIONS = [
  "conversation/event",
  "conversation/delta",
  "conversation/changed",
  "conversation/gap",
  "port/changed",
] as const;

/** Connects, as soon as the socket is open; `closed` of the client also says that it could not. */
export function connectTo(address: URL, onNotification: (notification: Notification) => void): DaemonClient {
  const socket = new WebSocket(address);
  const opened = new Promise((resolve) => socket.addEventListener("open", resolve));
  const client = connect(framesOf(socket), {
    write: (bytes: Uint8Array) => void opened.then(() => socket.send(bodyOf(bytes))),
    end: () => socket.close(),
  });
  for (const method of NOTIFICATIONS) client.on(method, (params) => onNotification({ method, params } as Notification));
  // The panel shows what is asked by its events and answers by requests; these stay open until they are withdrawn.
  for (const method of ["approval/request", "input/request"] as const)
    client.answer(method, (_, signal) => new Promise((_resolve, reject) => signal.addEventListener("abort", reject)));
  return client;
}

async function* framesOf(socket: WebSocket): AsyncGenerator<Uint8Array> {
  const texts: string[] = [];
  let wake = () => {};
  socket.addEventListener("message", ({ data }: MessageEvent<string>) => {
    texts.push(data);
    wake();
  });
  socket.addEventListener("close", () => wake());
  for (;;) {
    for (const text of texts.splice(0)) yield frame(JSON.parse(text));
    if (socket.readyState === WebSocket.CLOSED) return;
    if (texts.length > 0) continue;
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

function bodyOf(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes);
  return text.slice(text.indexOf("\r\n\r\n") + 4);
}
