/** Secrets of the project in the URL, or of the project that was last shown. */
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
  const [lastProject, setLastProject] = useLocalStorage<string | null>({
    key: "fairlead.project",
    defaultValue: null,
    getInitialValueInEffect: false,
  });
  useEffect(() => {
    if (project) setLastProject(project);
  }, [project, setLastProject]);
  if (scopes.error && !scopes.data) {
    return (
      <ProblemPage
        error={scopes.error}
        title="Could not load secrets"
        onRetry={() => void scopes.refetch()}
      />
    );
  }
  if (!scopes.data) return <Loading />;
  const projects = scopes.data
    .filter((record) => record.kind === "project")
    .map((record) => record.name)
    .sort((left, right) => left.localeCompare(right));
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
  const first = projects.find((name) => name === lastProject) ?? projects[0];
  if (first) return <Redirect to={secretsAddress(first)} replace />;
  return (
    <Page title="Secrets" about="Secrets belong to projects, and you don't have access to any project yet." />
  );
}
