// What a client in TypeScript writes against the generated types. It is only compiled.
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

const api = createClient<paths>({ baseUrl: "http://127.0.0.1:5000" });

export async function run(): Promise<string> {
  const { data: task, error } = await api.POST("/api/runtime/llm-tasks", {
    body: { context_id: "c", agent_slug: "a", prompt: "p" },
  });
  if (!task) throw new Error(error?.error);
  await api.POST("/api/runtime/llm-tasks", { body: { context_id: "c", agent_slug: "a", prompt: "p", policy: { timeout_sec: 60 } } });
  await api.POST("/api/runtime/llm-tasks/{id}/lease", { params: { path: { id: task.id } }, body: {} });
  await api.POST("/api/runtime/llm-tasks/{id}/complete", { params: { path: { id: task.id } }, body: { status: "success", output: "" } });
  await api.POST("/api/runtime/workers", { body: { name: "w" } });
  await api.POST("/api/runtime/workers", { body: { name: "w", capabilities: { labels: ["l"] } } });
  await api.POST("/api/runtime/workers/{id}/claim", { params: { path: { id: "w" } }, body: { max: 1 } });
  await api.POST("/api/runtime/workers/{id}/drain", { params: { path: { id: "w" } }, body: {} });
  const { data: list } = await api.GET("/api/runtime/llm-tasks", { params: { query: { limit: 10, preview: 200, status: "queued" } } });
  const shown: components["schemas"]["Event"] = { seq: 1, type: "text", at: 1, epoch: 1, data: {} };
  const lease: string | null = task.lease_id;
  return `${list?.[0]?.prompt ?? ""}${lease ?? ""}${shown.seq}`;
}
