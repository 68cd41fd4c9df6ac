/** Chapters of what a policy says, each line with the scope that it comes from. */
import { Anchor, List, Stack, Text, Title } from "@mantine/core";
import { Link } from "wouter";
import { policyAddress } from "../../shell/addresses";
import classes from "./Policy.module.css";
import type { Chapter, Statement } from "./statements";

interface Props {
  chapters: Chapter[];
  /** The scope that is looked at; left out where all of it comes from one. */
  here?: string;
}

export function Statements({ chapters, here }: Props) {
  return (
    <Stack gap="md">
      {chapters.map((chapter) => (
        <section key={chapter.title} aria-label={chapter.title}>
          <Title order={3} fz="sm" mb={2}>
            {chapter.title}
          </Title>
          {chapter.note && (
            <Text size="xs" c="dimmed" mb={2}>
              {chapter.note}
            </Text>
          )}
          <List listStyleType="none" className={classes.lines}>
            {chapter.statements.map((told) => (
              <List.Item key={`${told.about} ${told.text} ${told.from}`}>
                <Line told={told} here={here} />
              </List.Item>
            ))}
          </List>
        </section>
      ))}
    </Stack>
  );
}

function Line({ told, here }: { told: Statement; here?: string }) {
  return (
    <Text size="sm" component="span" className={classes.line} data-quiet={told.from === null || undefined}>
      {told.about && <b>{told.about} </b>}
      {told.text}
      {here !== undefined && <Origin from={told.from} here={here} />}
    </Text>
  );
}

function Origin({ from, here }: { from: string | null; here: string }) {
  if (from === null) return <span className={classes.from}>, as shipped</span>;
  if (from === here) return <span className={classes.from}>, said here</span>;
  return (
    <span className={classes.from}>
      , from{" "}
      <Anchor component={Link} href={policyAddress(from)} fz="inherit">
        {from}
      </Anchor>
    </span>
  );
}
