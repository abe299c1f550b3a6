/** The page of `oh-daemon serve`: the panel, with what VS Code's own title bar has beside it. */

// First: the panel looks for its host as soon as it is loaded.
import { show } from "./host";
import "../webview/main";
import { h, icon } from "../webview/dom";

const CHAT = "chat";
const toList = h(
  "button.quiet.to-list",
  { title: "Conversations", "aria-label": "Conversations", onclick: () => (isDeep() ? history.back() : show("list")) },
  icon("back"),
);
const toNew = h(
  "button.quiet.to-new",
  { title: "New conversation", "aria-label": "New conversation", onclick: () => show("new") },
  icon("plus"),
);
const header = document.querySelector("header");
header?.prepend(toList);
header?.append(toNew);

// Back leads from a conversation to the list, as it does everywhere on a phone.
new MutationObserver(() => {
  const isChat = document.body.dataset.view === "chat";
  if (isChat && !isDeep()) history.pushState(CHAT, "");
  if (!isChat && isDeep()) history.replaceState(null, "");
}).observe(document.body, { attributeFilter: ["data-view"] });
window.addEventListener("popstate", () => show(isDeep() ? "input" : "list"));

function isDeep(): boolean {
  return history.state === CHAT;
}
