/** Page for a compute resource or template: its specification, usage and revisions. */
import { Badge, Group, Tabs, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useParams } from "wouter";
import { useMay } from "../../api/currentUser";
import { Leaves } from "../../format/Leaves";
import { Time } from "../../format/Time";
import { ScopeLink } from "../../scopes/ScopeLink";
import { Loading } from "../../shell/Loading";
import { Card, Columns, Page } from "../../shell/Page";
import { ProblemAlert, ProblemPage } from "../../shell/Problem";
import { CopyButton, EditButton } from "./Actions";
import { readAsset, writeAsset } from "./drafts";
import { PodSummary } from "./PodSummary";
import { Revisions } from "./Revisions";
import { type Asset, type AssetKind, useAsset, useCheck } from "./requests";

interface Props {
  kind: AssetKind;
  title: string;
  hasTypes?: boolean;
  /** Additional content below the description. */
  about?: (item: Asset) => ReactNode;
  /** Additional tabs for this kind. */
  tabs: { name: string; title: string; render: (item: Asset) => ReactNode }[];
}

export function DetailPage({ kind, title, hasTypes = false, about, tabs }: Props) {
  const { name = "" } = useParams<{ name: string }>();
  const query = useAsset(kind, name);
  const may = useMay();
  if (query.error && !query.data) {
    return <ProblemPage error={query.error} link={{ title: `All ${kind.nouns}`, href: kind.path }} />;
  }
  if (!query.data) return <Loading />;
  const item = query.data;
  return (
    <Page
      title={item.name}
      parent={{ title, href: kind.path, name: item.name }}
      badges={<Badges item={item} />}
      about={
        <>
          <About item={item} />
          {about?.(item)}
        </>
      }
      actions={
        may("editor", item.scope) && (
          <Group gap="xs">
            <EditButton kind={kind} item={item} />
            <CopyButton kind={kind} item={item} />
          </Group>
        )
      }
    >
      <Tabs defaultValue="specification" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="specification">Specification</Tabs.Tab>
          {tabs.map((tab) => (
            <Tabs.Tab key={tab.name} value={tab.name}>
              {tab.title}
            </Tabs.Tab>
          ))}
          <Tabs.Tab value="revisions">Revisions</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="specification">
          <Specification kind={kind} item={item} hasTypes={hasTypes} />
        </Tabs.Panel>
        {tabs.map((tab) => (
          <Tabs.Panel key={tab.name} value={tab.name}>
            {tab.render(item)}
          </Tabs.Panel>
        ))}
        <Tabs.Panel value="revisions">
          <Revisions kind={kind} item={item} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function Badges({ item }: { item: Asset }) {
  return (
    <>
      {item.archived && (
        <Badge color="gray">archived{item.successor && `, replaced by ${item.successor}`}</Badge>
      )}
      {item.managed_by && <Badge color="gray">managed by {item.managed_by}</Badge>}
    </>
  );
}

function About({ item }: { item: Asset }) {
  return (
    <>
      {item.description && (
        <Text size="sm" c="var(--mantine-color-text)">
          {item.description}
        </Text>
      )}
      <ScopeLink scope={item.scope} /> · revision {item.revision}, saved by {item.updated_by}{" "}
      <Time at={item.updated_at} />
    </>
  );
}

function Specification({ kind, item, hasTypes }: { kind: AssetKind; item: Asset; hasTypes: boolean }) {
  const check = useCheck(kind, writeAsset(readAsset(item), { hasTypes }));
  return (
    <Columns
      side={
        <>
          <ProblemAlert error={check.error} />
          <PodSummary
            sentences={check.data?.sentences ?? []}
            warnings={check.data?.warnings ?? []}
            violations={check.data?.violations ?? []}
            isCurrent
          />
        </>
      }
    >
      <Card>
        <Leaves
          of={item.requirements}
          emptyText="No settings. Users choose everything when they submit a run."
        />
      </Card>
    </Columns>
  );
}
