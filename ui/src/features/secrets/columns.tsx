import type { Column } from "../../table/columns";
import { CREATED_AT, CREATED_BY, REVISION, UPDATED_AT, UPDATED_BY } from "../../table/stamps";
import type { Secret } from "./requests";

export const COLUMNS: Column<Secret>[] = [
  { key: "name", title: "Secret", width: 220, kind: "text", render: (item) => item.name },
  { ...UPDATED_AT, title: "Last set" },
  { ...UPDATED_BY, title: "Set by", width: 200 },
  { ...CREATED_AT, title: "First set" },
  { ...REVISION, title: "Times set", width: 100 },
  { ...CREATED_BY, title: "First set by", width: 200, isExtra: true },
];
