/** Page for a function: its code, its runs and its properties. */
import { Badge, Group } from "@mantine/core";
import { Time } from "../../format/Time";
import { ScopeLink } from "../../scopes/ScopeLink";
import { functionAddress, useNames } from "../../shell/addresses";
import { Loading } from "../../shell/Loading";
import { NotFoundPage } from "../../shell/NotFoundPage";
import { Page } from "../../shell/Page";
import { ProblemPage } from "../../shell/Problem";
import { type Part, TabLinks } from "../../shell/TabLinks";
import { useNavigate } from "../../shell/useNavigate";
import { AboutTab } from "./AboutTab";
import { CodeTab } from "./CodeTab";
import { FunctionActions } from "./FunctionActions";
import { showKind } from "./kinds";
import { RunsTab } from "./RunsTab";
import { useFunction } from "./requests";

const ALL = "/functions";

export default function FunctionPage() {
  const { project = "", name = "", part } = useNames<"project" | "name" | "part">();
  const navigate = useNavigate();
  const query = useFunction(project, name);
  if (query.error && !query.data) {
    return (
      <ProblemPage
        error={query.error}
        onRetry={() => void query.refetch()}
        link={{ title: "All functions", href: ALL }}
      />
    );
  }
  if (!query.data) return <Loading />;
  const item = query.data;
  const parts: Part[] = [
    { name: "code", title: "Code", render: () => <CodeTab item={item} /> },
    { name: "runs", title: "Runs", render: () => <RunsTab item={item} /> },
    { name: "about", title: "About", render: () => <AboutTab item={item} /> },
  ];
  if (part && !parts.some((known) => known.name === part)) return <NotFoundPage />;
  return (
    <Page
      title={item.name}
      parent={{ title: "Functions", href: ALL, name: item.name }}
      badges={<Badge color="gray">{showKind(item)}</Badge>}
      about={
        <>
          <ScopeLink scope={item.scope} /> · revision {item.revision}, saved by {item.updated_by}{" "}
          <Time at={item.updated_at} />
        </>
      }
      actions={
        <Group gap="xs">
          <FunctionActions item={item} onDeleted={() => navigate(ALL)} />
        </Group>
      }
    >
      <TabLinks
        label="Function sections"
        parts={parts}
        chosen={part ?? "code"}
        address={functionAddress(project, name)}
      />
    </Page>
  );
}
