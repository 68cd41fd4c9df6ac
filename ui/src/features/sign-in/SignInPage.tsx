import { Alert, Paper, Stack, Text, Title } from "@mantine/core";
import { sentence } from "../../format/sentences";
import { SignInForm } from "./SignInForm";
import classes from "./SignInPage.module.css";

export function SignInPage({ onSignIn }: { onSignIn: (token: string) => Promise<void> }) {
  const failed = new URLSearchParams(window.location.search).get("failed");
  return (
    <main className={classes.page}>
      <Paper className={classes.card} withBorder>
        <Stack gap="lg">
          <Stack gap={4}>
            <img src="/favicon.svg" alt="" width={40} height={40} />
            <Title order={1}>Sign in to Fairlead</Title>
            <Text c="dimmed" size="sm">
              Every AI run gets the compute it asked for.
            </Text>
          </Stack>
          {failed && (
            <Alert color="red" role="alert">
              {sentence(failed)}
            </Alert>
          )}
          <SignInForm onSignIn={onSignIn} />
        </Stack>
      </Paper>
    </main>
  );
}
