/** The secrets of the project that the address names, or else of the one that was looked at last. */
import { useLocalStorage } from "@mantine/hooks";
import { useEffect } from "react";
import { Redirect, useLocation } from "wouter";
import { useScopes } from "../../api/scopes";
import { secretsAddress, useNames } from "../../shell/addresses";
import { Loading } from "../../shell/Loading";
import { Page } from "../../shell/Page";
import { ProblemPage } from "../../shell/Problem";
import { SecretTable } from "./SecretTable";

export default function Secrets() {
  const { project } = useNames<"project">();
  const [, go] = useLocation();
  const scopes = useScopes();
  const [last, remember] = useLocalStorage<string | null>({
    key: "fairlead.project",
    defaultValue: null,
    getInitialValueInEffect: false,
  });
  useEffect(() => {
    if (project) remember(project);
  }, [project, remember]);
  if (scopes.error && !scopes.data) {
    return (
      <ProblemPage
        error={scopes.error}
        title="The secrets cannot be shown"
        onRetry={() => void scopes.refetch()}
      />
    );
  }
  if (!scopes.data) return <Loading />;
  const projects = scopes.data
    .filter((record) => record.kind === "project")
    .map((record) => record.name)
    .sort((one, other) => one.localeCompare(other));
  if (project) {
    return (
      <SecretTable
        key={project}
        project={project}
        projects={projects}
        onChoose={(next) => go(secretsAddress(next))}
      />
    );
  }
  const first = projects.find((name) => name === last) ?? projects[0];
  if (first) return <Redirect to={secretsAddress(first)} replace />;
  return <Page title="Secrets" about="Secrets live in projects, and you see none." />;
}
