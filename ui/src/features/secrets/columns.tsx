import type { Column } from "../../table/columns";
import { CREATED_AT, CREATED_BY, REVISION, UPDATED_AT, UPDATED_BY } from "../../table/stamps";
import type { Secret } from "./requests";

export const COLUMNS: Column<Secret>[] = [
  { key: "name", title: "Secret", width: 220, kind: "text", render: (item) => item.name },
  UPDATED_AT,
  { ...UPDATED_BY, width: 200 },
  CREATED_AT,
  { ...REVISION, title: "Versions", width: 100 },
  { ...CREATED_BY, width: 200, isExtra: true },
];
