/** Images of messages and results: read from the log in pieces, and uploaded in pieces when they are large. */

import type { Part } from "oh-daemon-client/protocol";
import { h } from "./dom";
import { call } from "./host";

/** Larger images are uploaded before the message instead of being sent in it. */
const INLINE_CHARS = 1 << 19;
/** Within the daemon's limits, and whole base64 groups of four characters or three bytes: pieces can be joined. */
const PIECE_CHARS = 4 * Math.floor((512 << 10) / 3);
const PIECE_BYTES = 3 << 16;
const MAX_KEPT = 50;

export interface ImageSource {
  mimeType: string;
  data?: string;
  outputRef?: string;
}

/** Images that were read, by their hash in the log, so that a card can be drawn again without reading them again. */
const read = new Map<string, Promise<string>>();

export function imageView(source: ImageSource, conversationId: string): HTMLElement {
  const { mimeType, data, outputRef } = source;
  const image = h("img", { alt: "image" });
  const show = (base64: string) => {
    image.src = `data:${mimeType};base64,${base64}`;
  };
  if (data !== undefined) show(data);
  else if (outputRef !== undefined) {
    fetched(conversationId, outputRef).then(show, (error: unknown) => {
      image.alt = `This image cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    });
  }
  return image;
}

function fetched(conversationId: string, outputRef: string): Promise<string> {
  const known = read.get(outputRef);
  if (known !== undefined) return known;
  const asked = readWhole(conversationId, outputRef);
  asked.catch(() => read.delete(outputRef));
  read.set(outputRef, asked);
  const [oldest] = read.keys();
  if (read.size > MAX_KEPT && oldest !== undefined) read.delete(oldest);
  return asked;
}

async function readWhole(conversationId: string, outputRef: string): Promise<string> {
  let text = "";
  let offset = 0;
  for (;;) {
    const page = await call("output/read", {
      conversationId,
      outputRef,
      offset,
      limit: PIECE_BYTES,
      encoding: "base64",
    });
    text += page.text;
    if (page.nextOffset >= page.total || page.nextOffset <= offset) return text;
    offset = page.nextOffset;
  }
}

/** Returns the part as it is sent: a large image or PDF is uploaded first, and the part only refers to it. */
export async function uploaded(part: Part): Promise<Part> {
  if (part.type !== "image" && part.type !== "document") return part;
  const { data = "", ...facts } = part;
  if (data.length <= INLINE_CHARS) return part;
  const { mimeType } = part;
  const total = Math.ceil(data.length / PIECE_CHARS);
  let named: { attachmentId?: string } = {};
  for (let index = 0; index < total; index++) {
    const piece = data.slice(index * PIECE_CHARS, (index + 1) * PIECE_CHARS);
    const { attachmentId } = await call("attachment/put", { ...named, mimeType, index, total, data: piece });
    named = { attachmentId };
  }
  return { ...facts, ...named };
}
