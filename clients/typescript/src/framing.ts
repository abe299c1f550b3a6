/** Messages in a stream of bytes: a header with the length is ahead of each, as in LSP. */

const HEADER_END = [13, 10, 13, 10];
const decoder = new TextDecoder();
const encoder = new TextEncoder();

export function frame(message: object): Uint8Array {
  const body = encoder.encode(JSON.stringify(message));
  const head = encoder.encode(`Content-Length: ${body.length}\r\n\r\n`);
  return joined([head, body]);
}

/** Yields the messages of a stream. Throws when it holds something else. */
export async function* messages(stream: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
  let parts: Uint8Array[] = [];
  let missing = 1;
  for await (const part of stream) {
    parts.push(part);
    missing -= part.length;
    // Joining is left until there is a whole message: a long one comes in hundreds of parts.
    if (missing > 0) continue;
    let bytes = joined(parts);
    for (;;) {
      const begin = bodyOf(bytes);
      const length = begin === undefined ? 0 : lengthIn(bytes.subarray(0, begin));
      missing = begin === undefined ? 1 : begin + length - bytes.length;
      if (begin === undefined || missing > 0) break;
      yield JSON.parse(decoder.decode(bytes.subarray(begin, begin + length)));
      bytes = bytes.subarray(begin + length);
    }
    parts = [bytes];
  }
}

/** Where the body begins; undefined while its header is not complete. */
function bodyOf(bytes: Uint8Array): number | undefined {
  for (let at = bytes.indexOf(13); at >= 0; at = bytes.indexOf(13, at + 1))
    if (HEADER_END.every((byte, n) => bytes[at + n] === byte)) return at + HEADER_END.length;
  return undefined;
}

function lengthIn(header: Uint8Array): number {
  const text = decoder.decode(header);
  const length = /^content-length: *(\d+)\r$/im.exec(text)?.[1];
  if (length === undefined)
    throw new Error(`expected a Content-Length header, got ${JSON.stringify(text.slice(0, 40))}`);
  return Number(length);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
