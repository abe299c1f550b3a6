/** The ports on which the agent's commands listen in their sandbox, each with a button that opens it in the browser. */

import type { OpenPort, PortChangedParams } from "oh-daemon-client/protocol";
import { h } from "./dom";
import { call, hasEditor, report } from "./host";

export class PortsBox {
  readonly element = h("div.ports", { role: "status", hidden: true });
  private readonly ports = new Map<string, readonly OpenPort[]>();
  private shown = "";

  onChanged({ conversationId, ports }: PortChangedParams): void {
    this.ports.set(conversationId, ports);
  }

  /** Reads what is listened on already: a page that has just opened has heard of nothing. */
  async load(conversationId: string): Promise<void> {
    const { ports } = await call("port/list", { conversationId });
    this.ports.set(conversationId, ports);
  }

  draw(conversationId: string | undefined): void {
    const ports = this.ports.get(conversationId ?? "") ?? [];
    const key = JSON.stringify([conversationId, ports]);
    if (key === this.shown) return;
    this.shown = key;
    this.element.hidden = ports.length === 0;
    if (conversationId === undefined) return;
    this.element.replaceChildren(...ports.map((port) => row(conversationId, port)));
  }
}

function row(conversationId: string, { port, address }: OpenPort): HTMLElement {
  const open = async () => {
    const opened = await call("port/open", { conversationId, port });
    await call("host/openAddress", opened);
  };
  return h(
    "div.strip",
    {},
    h("span", {}, `A command listens on port ${port}${address === undefined ? "" : `, open at ${address}`}`),
    hasEditor && h("button.secondary", { "data-port": String(port), onclick: () => void open().catch(report) }, "Open"),
  );
}
