/** Answers the daemon's questions about code from this window's language extensions. */

import {
  commands,
  type DocumentSymbol,
  extensions,
  type Hover,
  languages,
  type Location,
  type LocationLink,
  type MarkdownString,
  type MarkedString,
  Position as CodePosition,
  type SymbolInformation,
  Uri,
  workspace,
  type WorkspaceEdit,
} from "vscode";
import type {
  Diagnostic,
  DocumentSymbol as LspDocumentSymbol,
  Hover as LspHover,
  LanguageClient,
  Location as LspLocation,
  Position,
  WorkspaceEdit as LspWorkspaceEdit,
} from "vscode-languageclient/node";
import { openDocument, toRange } from "./editor";
import type { Reports } from "./reports";

interface Place {
  textDocument: { uri: string };
  position: Position;
}
type Answer = (client: LanguageClient, params: never) => Promise<unknown>;

const ANSWERS: Record<string, Answer> = {
  "textDocument/definition": (_, place: Place) => locations("vscode.executeDefinitionProvider", place),
  "textDocument/references": (_, place: Place) => locations("vscode.executeReferenceProvider", place),
  "textDocument/hover": (_, place: Place) => hover(place),
  "textDocument/documentSymbol": documentSymbols,
  "textDocument/rename": (_, params: Place & { newName: string }) => rename(params),
  "workspace/symbol": workspaceSymbols,
};

export async function answerLanguageRequest(
  client: LanguageClient,
  { method, params }: { method: string; params: unknown },
): Promise<{ result: unknown }> {
  const answer = ANSWERS[method];
  if (!answer) throw new Error(`this editor cannot answer ${method}; it answers ${Object.keys(ANSWERS).join(", ")}`);
  // Data enters here: the daemon sends the params that LSP defines for this method.
  return { result: await answer(client, params as never) };
}

export async function readDiagnostics(
  client: LanguageClient,
  reports: Reports,
  { uris, minSeverity = 4 }: { uris?: readonly string[]; minSeverity?: number },
): Promise<{ items: { uri: string; diagnostics: Diagnostic[] }[] }> {
  await Promise.all((uris ?? []).map((uri) => reports.settled(Uri.parse(uri))));
  const found = uris
    ? uris.map((uri) => ({ uri, diagnostics: languages.getDiagnostics(Uri.parse(uri)) }))
    : languages.getDiagnostics().map(([uri, diagnostics]) => ({ uri: uri.toString(), diagnostics }));
  const items = found.map(({ uri, diagnostics }) => ({
    uri,
    diagnostics: client.code2ProtocolConverter
      .asDiagnosticsSync(diagnostics)
      .filter(({ severity = 1 }) => severity <= minSeverity),
  }));
  return { items: uris ? items : items.filter(({ diagnostics }) => diagnostics.length > 0) };
}

async function ask<T>(command: string, { textDocument, position }: Place, ...more: unknown[]): Promise<T> {
  const uri = await readied(textDocument.uri);
  return commands.executeCommand<T>(command, uri, new CodePosition(position.line, position.character), ...more);
}

/** Opens the document and waits for its language extension, so that the first question gets an answer. */
async function readied(uri: string): Promise<Uri> {
  const document = await workspace.openTextDocument(Uri.parse(uri));
  const event = `onLanguage:${document.languageId}`;
  const asleep = extensions.all.filter(
    ({ isActive, packageJSON }) =>
      !isActive && (packageJSON as { activationEvents?: string[] }).activationEvents?.includes(event),
  );
  await Promise.allSettled(asleep.map((extension) => extension.activate()));
  return document.uri;
}

async function locations(command: string, place: Place): Promise<LspLocation[]> {
  const found = await ask<(Location | LocationLink)[] | undefined>(command, place);
  return (found ?? []).map((each) =>
    "targetUri" in each
      ? { uri: each.targetUri.toString(), range: toRange(each.targetSelectionRange ?? each.targetRange) }
      : toLocation(each),
  );
}

async function hover(place: Place): Promise<LspHover | null> {
  const found = await ask<Hover[] | undefined>("vscode.executeHoverProvider", place);
  const contents = (found ?? []).flatMap((each) => each.contents.map(toMarkdown)).filter(Boolean);
  if (contents.length === 0) return null;
  const range = found?.[0]?.range;
  return {
    contents: { kind: "markdown", value: contents.join("\n\n---\n\n") },
    ...(range && { range: toRange(range) }),
  };
}

async function documentSymbols(
  client: LanguageClient,
  { textDocument }: Pick<Place, "textDocument">,
): Promise<unknown> {
  const uri = await readied(textDocument.uri);
  const found = await commands.executeCommand<(DocumentSymbol | SymbolInformation)[] | undefined>(
    "vscode.executeDocumentSymbolProvider",
    uri,
  );
  return (found ?? []).map((each) => ("children" in each ? toDocumentSymbol(client, each) : toSymbol(client, each)));
}

async function workspaceSymbols(client: LanguageClient, { query }: { query: string }): Promise<unknown> {
  const found = await commands.executeCommand<SymbolInformation[] | undefined>(
    "vscode.executeWorkspaceSymbolProvider",
    query,
  );
  return (found ?? []).map((each) => toSymbol(client, each));
}

/** The rename's edits are not applied here: the daemon asks the user first, and edits each file as its own step. */
async function rename({ newName, ...place }: Place & { newName: string }): Promise<LspWorkspaceEdit | null> {
  const found = await ask<WorkspaceEdit | undefined>("vscode.executeDocumentRenameProvider", place, newName);
  if (!found || found.size === 0) return null;
  return {
    documentChanges: found.entries().map(([uri, edits]) => ({
      textDocument: { uri: uri.toString(), version: openDocument(uri.toString())?.version ?? null },
      edits: edits.map(({ range, newText }) => ({ range: toRange(range), newText })),
    })),
  };
}

function toDocumentSymbol(client: LanguageClient, symbol: DocumentSymbol): LspDocumentSymbol {
  const { name, detail, kind, range, selectionRange, children } = symbol;
  return {
    name,
    detail,
    kind: client.code2ProtocolConverter.asSymbolKind(kind),
    range: toRange(range),
    selectionRange: toRange(selectionRange),
    children: children.map((child) => toDocumentSymbol(client, child)),
  };
}

function toSymbol(client: LanguageClient, { name, kind, containerName, location }: SymbolInformation): unknown {
  return {
    name,
    kind: client.code2ProtocolConverter.asSymbolKind(kind),
    containerName,
    location: toLocation(location),
  };
}

function toLocation({ uri, range }: Location): LspLocation {
  return { uri: uri.toString(), range: toRange(range) };
}

function toMarkdown(content: MarkdownString | MarkedString): string {
  if (typeof content === "string") return content;
  return "language" in content ? `\`\`\`${content.language}\n${content.value}\n\`\`\`` : content.value;
}
