/** Lets in whoever is signed in; asks everybody else. A session that ends keeps what is on the page. */
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

export function Entrance({ children }: { children: ReactNode }) {
  const me = useMe();
  const queries = useQueryClient();
  const isExpired = expired.use();
  const [wasIn, setWasIn] = useState(false);
  if (me.data && !wasIn) setWasIn(true);

  const enter = async (token: string) => {
    const before = me.data?.user;
    await signIn(token);
    const { data: now } = await me.refetch();
    // What the one before saw and typed is not for the next.
    if (before && now && now.user !== before) window.location.assign("/");
    else await queries.invalidateQueries();
  };

  if (wasIn) {
    return (
      <>
        {children}
        <Modal opened={isExpired} onClose={() => {}} withCloseButton={false} title="Your session has ended">
          <SignInForm onSignIn={enter} />
        </Modal>
      </>
    );
  }
  if (isProblem(me.error) && me.error.problem.status === 401) return <SignInPage onSignIn={enter} />;
  if (me.error) return <ProblemPage error={me.error} onRetry={() => void me.refetch()} />;
  return <Loading />;
}
