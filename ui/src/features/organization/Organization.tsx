/** The organization: the tree, and the place in it that the address names. */
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
        title="The organization cannot be shown"
        onRetry={() => void scopes.refetch()}
      />
    );
  }
  if (!scopes.data) return <Loading />;
  // A "+" that somebody typed is read as a space, which no name has.
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
      about="Places, who may do what there, and what they may hold. What is set at a place reaches everything below it."
    >
      <div className={classes.columns}>
        <Paper withBorder className={classes.tree}>
          <SearchableTree label="Places" scopes={scopes} marked={scope} onChoose={onChoose} />
        </Paper>
        {record ? (
          <ScopePanel key={record.id} record={record} scopes={scopes} onChoose={onChoose} />
        ) : (
          <Card>
            <Text size="sm">
              {scopes.length > 0
                ? `There is no ${scope}, or you do not see it.`
                : "You have no role yet, so you see no place. Ask an administrator for one."}
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
