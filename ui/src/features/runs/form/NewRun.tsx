/** Page for a new run, optionally based on a function, a template or an earlier run. */
import { Anchor } from "@mantine/core";
import { Link, useSearch } from "wouter";
import { Loading } from "../../../shell/Loading";
import { Page } from "../../../shell/Page";
import { ProblemPage } from "../../../shell/Problem";
import { useInitialValues } from "./initialValues";
import { RunForm } from "./RunForm";

export default function NewRun() {
  const address = useSearch();
  const { error, retry, projects, initialValues } = useInitialValues();
  if (error) {
    return <ProblemPage error={error} onRetry={retry} link={{ title: "All runs", href: "/runs" }} />;
  }
  if (!projects || !initialValues) return <Loading />;
  if (projects.length === 0) {
    return (
      <Page title="New run" about="You're not in a project yet. Ask a project admin to add you.">
        <Anchor component={Link} href="/organization">
          View organization
        </Anchor>
      </Page>
    );
  }
  return <RunForm key={address} initialValues={initialValues} projects={projects} />;
}
