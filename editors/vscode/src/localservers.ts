/** Servers of models: where each usually listens, and which of them answer on this machine. */

import type { LocalServer } from "./messages";

/** A closed port is refused at once; only a server that is busy, or a machine under load, takes longer. */
const PATIENCE_MS = 5000;
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** The variables are those by which the daemon is told another address. */
export const SERVERS = [
  { name: "Ollama", address: "http://localhost:11434", variable: "OLLAMA_API_BASE" },
  { name: "LM Studio", address: "http://localhost:1234", variable: "LM_STUDIO_API_BASE" },
  { name: "vLLM", address: "http://localhost:8000", variable: "HOSTED_VLLM_API_BASE" },
  { name: "llama.cpp", address: "http://localhost:8080", variable: "LLAMAFILE_API_BASE" },
] as const;

/** Returns the servers that list models. They are asked without a key: anybody may listen there. */
export async function localServers(): Promise<LocalServer[]> {
  const places = SERVERS.map(({ name, address, variable }) => ({ name, address: process.env[variable] || address }));
  const answers = await Promise.all(
    places.map(async (place) => ({ ...place, nModels: await countModels(place.address) })),
  );
  return answers.filter(({ nModels }) => nModels > 0);
}

async function countModels(address: string): Promise<number> {
  try {
    const url = new URL(`${address.replace(/\/(v1\/?)?$/, "")}/v1/models`);
    if (!LOOPBACK.includes(url.hostname)) return 0;
    const answer = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS), redirect: "error" });
    // Data enters here: what listens may be no server of models at all.
    const { data } = (await answer.json()) as { data?: unknown };
    return Array.isArray(data) ? data.length : 0;
  } catch {
    return 0;
  }
}
