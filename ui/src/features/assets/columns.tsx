/** Columns shared by compute resources and templates. */
import { Anchor, Badge, Group } from "@mantine/core";
import { Link } from "wouter";
import { splitScope } from "../../api/scopes";
import { Time } from "../../format/Time";
import { ScopeLink } from "../../scopes/ScopeLink";
import { type Column, NONE } from "../../table/columns";
import { CREATED_AT, CREATED_BY, MANAGED_BY, REVISION, UPDATED_AT, UPDATED_BY } from "../../table/stamps";
import { gpuMemory, limit, memoryLimit, memoryRequest, resources } from "./amounts";
import type { Asset, AssetKind } from "./requests";
import { UsageLink } from "./UsageLink";
import { Workloads } from "./Workloads";

export function nameColumn(kind: AssetKind, title: string): Column<Asset> {
  return {
    key: "name",
    title,
    width: 200,
    kind: "text",
    render: (item) => (
      <Group gap={6} wrap="nowrap">
        <Anchor component={Link} href={`${kind.path}/${item.name}`} fz="inherit" fw={550}>
          {item.name}
        </Anchor>
        {item.archived && (
          <Badge size="xs" color="gray">
            archived
          </Badge>
        )}
      </Group>
    ),
  };
}

export function workloadsColumn(kind: AssetKind): Column<Asset> {
  return {
    key: "workloads",
    title: "Workloads",
    width: 105,
    kind: "number",
    align: "right",
    render: (item) => (
      <UsageLink item={item} field="workloads">
        <Workloads kind={kind} id={item.id} />
      </UsageLink>
    ),
  };
}

export const DESCRIPTION: Column<Asset> = {
  key: "description",
  title: "Description",
  width: 220,
  kind: "text",
  render: (item) => item.description || NONE,
};

export const SCOPE: Column<Asset> = {
  key: "scope",
  title: "Scope",
  width: 170,
  kind: "keyword",
  render: (item) => <ScopeLink scope={item.scope} />,
};

/** Resources per pod. */
export const AMOUNTS: Column<Asset>[] = [
  amount("gpu_devices", "GPU devices per pod", 150, (item) => resources(item).gpu?.devices),
  amount("gpu_memory", "GPU memory per device", 165, gpuMemory),
  amount("mem_request", "CPU memory request", 155, memoryRequest),
  amount("mem_limit", "CPU memory limit", 140, memoryLimit),
  amount("cpu_request", "CPU compute request", 160, (item) => resources(item).cpu?.requests),
  amount("cpu_limit", "CPU compute limit", 145, (item) => limit(resources(item).cpu)),
];

function amount(
  key: string,
  title: string,
  width: number,
  read: (item: Asset) => string | number | undefined,
): Column<Asset> {
  return { key, title, width, kind: "number", align: "right", render: (item) => read(item) ?? NONE };
}

/** Authors, dates and state. */
export const HISTORY: Column<Asset>[] = [
  CREATED_BY,
  CREATED_AT,
  {
    key: "cluster",
    title: "Cluster",
    width: 130,
    kind: "keyword",
    render: (item) => (item.cluster ? splitScope(item.cluster).name : "All clusters"),
  },
  REVISION,
  UPDATED_AT,
  { ...UPDATED_BY, isExtra: true },
  {
    key: "last_used_at",
    title: "Last used",
    width: 125,
    kind: "time",
    isExtra: true,
    render: (item) => <Time at={item.last_used_at} />,
  },
  { ...MANAGED_BY, isExtra: true },
  {
    key: "archived",
    title: "Archived",
    width: 95,
    kind: "boolean",
    isExtra: true,
    render: (item) => (item.archived ? "yes" : "no"),
  },
];
