import { describe, expect, it } from "vitest";
import { callHook, stubStorage, TestLocation } from "../testing/hooks";
import type { Column } from "./columns";
import { useView, type View } from "./views";

const COLUMNS = ["name", "state", "id"].map(
  (key) => ({ key, title: key, isExtra: key === "id" }) as Column<unknown>,
);

/** Opens a table at a URL. Each call to `view` reads the URL again. */
function open(address: string, remembered?: unknown) {
  const stored = stubStorage(remembered === undefined ? {} : { "fairlead.columns.runs": remembered });
  const location = new TestLocation(address);
  const view = (): View => callHook(() => useView("runs", COLUMNS, "-created_at"), { location });
  return { location, stored, view };
}

describe("a view", () => {
  it("without query parameters has the default order and columns", () => {
    const { query, ...view } = open("/runs").view();
    expect(view).toMatchObject({
      search: "",
      sort: "-created_at",
      filters: [],
      columns: ["name", "state"],
      isNarrowed: false,
    });
    expect(String(query)).toBe("sort=-created_at");
  });

  it("is read from the URL", () => {
    const address = "/runs?search=a+b&state=failed&state=!queued&sort=name&columns=id,unknown,name";
    const { query, ...view } = open(address).view();
    expect(view).toMatchObject({
      search: "a b",
      sort: "name",
      filters: [
        { column: "state", text: "failed" },
        { column: "state", text: "!queued" },
      ],
      columns: ["id", "name"],
      isNarrowed: true,
    });
    expect(query.has("columns")).toBe(false);
    expect(query.getAll("state")).toEqual(["failed", "!queued"]);
  });

  it.each([
    ["/runs?sort=name&columns=id", false],
    ["/runs?search=a", true],
    ["/runs?state=failed", true],
  ])("at %s is narrowed: %j", (address, isNarrowed) => {
    expect(open(address).view().isNarrowed).toBe(isNarrowed);
  });

  it.each([
    ["the remembered columns", ["id"], ["id"]],
    ["only columns that still exist", ["id", "removed"], ["id"]],
    ["the default columns if the storage contains an object", { odd: 1 }, ["name", "state"]],
    ["the default columns if the storage contains text", "x", ["name", "state"]],
  ])("shows %s", (_, remembered, columns) => {
    expect(open("/runs", remembered).view().columns).toEqual(columns);
  });

  it("prefers the columns in the URL over the remembered ones", () => {
    expect(open("/runs?columns=state", ["id"]).view().columns).toEqual(["state"]);
  });
});

describe("changes to a view", () => {
  it.each<[string, string, (view: View) => void, string]>([
    ["search", "/runs?state=failed", (view) => view.setSearch("a&b"), "/runs?state=failed&search=a%26b"],
    ["end the search", "/runs?search=a&sort=name", (view) => view.setSearch(""), "/runs?sort=name"],
    ["sort", "/runs", (view) => view.sortBy("name"), "/runs?sort=name"],
    ["sort in the other direction", "/runs?sort=name", (view) => view.sortBy("name"), "/runs?sort=-name"],
    ["sort in ascending order again", "/runs?sort=-name", (view) => view.sortBy("name"), "/runs?sort=name"],
    ["sort by the default column", "/runs", (view) => view.sortBy("created_at"), "/runs?sort=created_at"],
    [
      "add a filter",
      "/runs?state=failed",
      (view) => view.addFilter({ column: "state", text: "!queued" }),
      "/runs?state=failed&state=%21queued",
    ],
    [
      "remove one filter of a column",
      "/runs?state=failed&state=queued",
      (view) => view.removeFilter({ column: "state", text: "failed" }),
      "/runs?state=queued",
    ],
    [
      "clear all but order and columns",
      "/runs?search=a&state=failed&sort=name&columns=id",
      (view) => view.clear(),
      "/runs?sort=name&columns=id",
    ],
    ["clear everything", "/runs?search=a&active=true", (view) => view.clear(), "/runs"],
  ])("%s", (_, address, change, after) => {
    const { location, view } = open(address);
    change(view());
    expect(location.address).toBe(after);
  });

  it("select columns and remember them", () => {
    const { location, stored, view } = open("/runs");
    view().setColumns(["name", "id"]);
    expect(location.address).toBe("/runs?columns=name%2Cid");
    expect(stored.get("fairlead.columns.runs")).toBe('["name","id"]');
    expect(view().columns).toEqual(["name", "id"]);
  });

  it("forget the columns once they are the default again", () => {
    const { location, stored, view } = open("/runs?columns=id", ["id"]);
    view().setColumns(["state", "name"]);
    expect(location.address).toBe("/runs");
    expect(stored.get("fairlead.columns.runs") ?? "null").toBe("null");
  });
});
