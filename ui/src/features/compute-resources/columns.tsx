/** The columns of the table, as seed 004 lists them, and a few more. */
import type { Column } from "../../table/columns";
import { AMOUNTS, DESCRIPTION, HISTORY, nameColumn, SCOPE, workloadsColumn } from "../assets/columns";
import { COMPUTE_RESOURCES } from "../assets/kinds";
import type { Asset } from "../assets/requests";
import { UsersLink } from "../assets/UsersLink";
import { Templates } from "./Templates";

export const COLUMNS: Column<Asset>[] = [
  nameColumn(COMPUTE_RESOURCES, "Compute resource"),
  DESCRIPTION,
  ...AMOUNTS,
  SCOPE,
  workloadsColumn(COMPUTE_RESOURCES),
  {
    key: "templates",
    title: "Templates",
    width: 105,
    kind: "number",
    align: "right",
    render: (item) => (
      <UsersLink item={item} what="templates">
        <Templates id={item.id} />
      </UsersLink>
    ),
  },
  ...HISTORY,
];
