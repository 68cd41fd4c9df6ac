/** The secrets of the project that the address names, or else of the one that was looked at last. */
import { useLocalStorage } from "@mantine/hooks";
import { useEffect } from "react";
import { Redirect, useLocation } from "wouter";
import { usePlaces } from "../../api/places";
import { secretsAddress, useNames } from "../../shell/addresses";
import { Page } from "../../shell/Page";
import { ProblemPage } from "../../shell/Problem";
import { Waiting } from "../../shell/Waiting";
import { SecretTable } from "./SecretTable";

export default function Secrets() {
  const { project } = useNames<"project">();
  const [, go] = useLocation();
  const places = usePlaces();
  const [last, remember] = useLocalStorage<string | null>({
    key: "fairlead.project",
    defaultValue: null,
    getInitialValueInEffect: false,
  });
  useEffect(() => {
    if (project) remember(project);
  }, [project, remember]);
  if (places.error && !places.data) {
    return (
      <ProblemPage
        error={places.error}
        title="The secrets cannot be shown"
        onRetry={() => void places.refetch()}
      />
    );
  }
  if (!places.data) return <Waiting />;
  const projects = places.data
    .filter((place) => place.kind === "project")
    .map((place) => place.name)
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
