/** Columns for record metadata: author, times and revision. */
import { Time } from "../format/Time";
import { type Column, NONE } from "./columns";

export const CREATED_BY: Column<{ created_by: string }> = {
  key: "created_by",
  title: "Created by",
  width: 160,
  kind: "text",
  render: (item) => item.created_by || NONE,
};

export const CREATED_AT: Column<{ created_at: string }> = {
  key: "created_at",
  title: "Created",
  width: 125,
  kind: "time",
  render: (item) => <Time at={item.created_at} />,
};

export const UPDATED_BY: Column<{ updated_by: string }> = {
  key: "updated_by",
  title: "Updated by",
  width: 160,
  kind: "text",
  render: (item) => item.updated_by,
};

export const UPDATED_AT: Column<{ updated_at: string }> = {
  key: "updated_at",
  title: "Last updated",
  width: 125,
  kind: "time",
  render: (item) => <Time at={item.updated_at} />,
};

export const REVISION: Column<{ revision: number }> = {
  key: "revision",
  title: "Revision",
  width: 90,
  kind: "number",
  align: "right",
  render: (item) => item.revision,
};

export const MANAGED_BY: Column<{ managed_by?: string | null }> = {
  key: "managed_by",
  title: "Managed by",
  width: 150,
  kind: "keyword",
  render: (item) => item.managed_by ?? NONE,
};
