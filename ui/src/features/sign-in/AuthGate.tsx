/** Shows the page to signed-in users, and the sign-in form to others. When a session ends, the page keeps its input. */
import { Modal } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useMe } from "../../api/currentUser";
import { isProblem } from "../../api/problems";
import { expired } from "../../api/sessions";
import { Loading } from "../../shell/Loading";
import { ProblemPage } from "../../shell/Problem";
import { signIn } from "./requests";
import { SignInForm } from "./SignInForm";
import { SignInPage } from "./SignInPage";

export function AuthGate({ children }: { children: ReactNode }) {
  const me = useMe();
  const queries = useQueryClient();
  const isExpired = expired.use();
  const [wasSignedIn, setSignedIn] = useState(false);
  // Stays true when the session expires, so that the page behind the dialog keeps its input.
  if (me.data && !wasSignedIn) setSignedIn(true);

  const submit = async (token: string) => {
    const before = me.data?.user;
    await signIn(token);
    const { data: now } = await me.refetch();
    // A different user must not see the previous user's data and input.
    if (before && now && now.user !== before) window.location.assign("/");
    else await queries.invalidateQueries();
  };

  if (wasSignedIn) {
    return (
      <>
        {children}
        <Modal opened={isExpired} onClose={() => {}} withCloseButton={false} title="Your session has ended">
          <SignInForm onSignIn={submit} />
        </Modal>
      </>
    );
  }
  if (isProblem(me.error) && me.error.problem.status === 401) return <SignInPage onSignIn={submit} />;
  if (me.error) return <ProblemPage error={me.error} onRetry={() => void me.refetch()} />;
  return <Loading />;
}
