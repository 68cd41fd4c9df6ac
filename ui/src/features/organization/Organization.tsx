/** The organization page: the tree, and the scope selected in the URL. */
import { Paper, Text } from "@mantine/core";
import { useSearchParams } from "wouter";
import { type Scope, useScopes } from "../../api/scopes";
import { SearchableTree } from "../../scopes/SearchableTree";
import { Loading } from "../../shell/Loading";
import { Card, Page } from "../../shell/Page";
import { ProblemPage } from "../../shell/Problem";
import classes from "./Organization.module.css";
import { ScopePanel } from "./ScopePanel";

export default function Organization() {
  const scopes = useScopes();
  const [params, setParams] = useSearchParams();
  if (scopes.error && !scopes.data) {
    return (
      <ProblemPage
        error={scopes.error}
        title="Could not load the organization"
        onRetry={() => void scopes.refetch()}
      />
    );
  }
  if (!scopes.data) return <Loading />;
  // A "+" in a URL typed by hand is decoded as a space, but names do not contain spaces.
  const scope = params.get("scope")?.replaceAll(" ", "+") ?? topOf(scopes.data);
  return <View scopes={scopes.data} scope={scope} onChoose={(next) => setParams({ scope: next })} />;
}

interface Props {
  scopes: Scope[];
  scope: string;
  onChoose: (scope: string) => void;
}

function View({ scopes, scope, onChoose }: Props) {
  const record = scopes.find((one) => one.scope === scope);
  return (
    <Page
      title="Organization"
      about="Clusters, departments and projects, with their roles and quotas. Settings apply to everything below."
    >
      <div className={classes.columns}>
        <Paper withBorder className={classes.tree}>
          <SearchableTree label="Scopes" scopes={scopes} marked={scope} onChoose={onChoose} />
        </Paper>
        {record ? (
          <ScopePanel key={record.id} record={record} scopes={scopes} onChoose={onChoose} />
        ) : (
          <Card>
            <Text size="sm">
              {scopes.length > 0
                ? `${scope} does not exist, or you don't have access to it.`
                : "You have no roles yet. Ask an administrator for access."}
            </Text>
          </Card>
        )}
      </div>
    </Page>
  );
}

function topOf(scopes: Scope[]): string {
  return scopes.find((record) => record.kind === "platform")?.scope ?? scopes[0]?.scope ?? "platform";
}
