import { describe, expect, it } from "vitest";
import { jsonResponse, stubFetch } from "../testing/runs";
import { firstPage, loadPage } from "./lists";

describe("firstPage", () => {
  it.each(["state=failed&sort=-created_at", new URLSearchParams("state=failed&sort=-created_at")])(
    "adds a limit and requests the total",
    (query) => {
      expect(Object.fromEntries(firstPage(query))).toEqual({
        state: "failed",
        sort: "-created_at",
        limit: "200",
        total: "true",
      });
      expect(String(query)).toBe("state=failed&sort=-created_at");
    },
  );
});

it("sends path parameters and filters unchanged", async () => {
  const addresses = stubFetch(() => jsonResponse({ items: [], next_cursor: null, total: 0 }));
  const query = new URLSearchParams([
    ["mem_request", ">=64Gi"],
    ["state", "failed"],
    ["state", "!queued"],
  ]);
  await loadPage("/api/v1/projects/{project}/runs", query, { project: "a+b" });
  const { pathname, searchParams } = new URL(addresses[0]!);
  expect(pathname).toBe("/api/v1/projects/a%2Bb/runs");
  expect([...searchParams]).toEqual([...query]);
});
