/** A new run: from nothing, from a function, from a template, or from an earlier run. */
import { Anchor } from "@mantine/core";
import { Link, useSearch } from "wouter";
import { Loading } from "../../../shell/Loading";
import { Page } from "../../../shell/Page";
import { ProblemPage } from "../../../shell/Problem";
import { RunForm } from "./RunForm";
import { useStart } from "./starts";

export default function NewRun() {
  const address = useSearch();
  const { error, retry, projects, start } = useStart();
  if (error) {
    return <ProblemPage error={error} onRetry={retry} way={{ title: "All runs", href: "/runs" }} />;
  }
  if (!projects || !start) return <Loading />;
  if (projects.length === 0) {
    return (
      <Page
        title="New run"
        about="You are a member of no project yet: somebody who manages one makes you one."
      >
        <Anchor component={Link} href="/organization">
          See the organization
        </Anchor>
      </Page>
    );
  }
  return <RunForm key={address} start={start} projects={projects} />;
}
