/** Columns of the templates table. Limits are hidden by default, because templates rarely set them. */
import { Anchor } from "@mantine/core";
import { Link } from "wouter";
import { type Column, NONE } from "../../table/columns";
import { AMOUNTS, DESCRIPTION, HISTORY, nameColumn, SCOPE, workloadsColumn } from "../assets/columns";
import { TEMPLATES } from "../assets/kinds";
import type { Asset } from "../assets/requests";

const DEFAULT_AMOUNTS = ["gpu_devices", "mem_request", "cpu_request"];

export const COLUMNS: Column<Asset>[] = [
  nameColumn(TEMPLATES, "Template"),
  DESCRIPTION,
  {
    key: "compute_resource",
    title: "Compute resource",
    width: 170,
    kind: "keyword",
    render: ({ compute_resource: name }) =>
      name ? (
        <Anchor component={Link} href={`/compute-resources/${name}`} fz="inherit">
          {name}
        </Anchor>
      ) : (
        NONE
      ),
  },
  ...AMOUNTS.map((column) => ({ ...column, isExtra: !DEFAULT_AMOUNTS.includes(column.key) })),
  SCOPE,
  workloadsColumn(TEMPLATES),
  ...HISTORY,
];
