"""Compiled answers: what `encode.QuestionEncoder` does, for many users at once."""

import numpy as np

from discreet._jit import kernel


@kernel()
def answer(asked, pooled, hidden, draws, states, actions, rewards, questions, support):
    """What `discreet.privatizers.questions.encode.QuestionEncoder` does for many users, a row each, bit for bit.

    ``asked`` is (cumulative probabilities, last question, cells, A); ``hidden`` is, for both kinds of questions, the
    number of answers, how many values a report contains (0: unary encoding) and the probabilities (p, q). Fills
    ``questions`` (users,) and ``support`` (users, width), which comes in as False.
    """
    cumulative, last, cells, A = asked
    sizes, chosen, chances = hidden
    users, H = actions.shape
    S = sizes[0] - 1
    for i in range(users):
        u = draws[i]
        question = min(np.searchsorted(cumulative, u[0] * cumulative[-1], side="right"), last)
        questions[i] = question
        about = question // cells
        cell = question % cells
        step = cell // (S * A)
        sa = cell % (S * A)
        k = sizes[about]
        value = k - 1
        for h in range(H):
            if (pooled or h == step) and states[i, h] * A + actions[i, h] == sa:
                value = int(u[1] < rewards[i, h]) if about == 1 else states[i, h + 1]
                break
        p, q = chances[about]
        if chosen[about] == 0:
            for j in range(k):
                support[i, j] = u[2 + j] < (p if j == value else q)
            continue
        support[i, value] = u[2] < p
        needed = chosen[about] - int(support[i, value])
        left = k - 1
        n = 3
        for j in range(k):
            if j != value:
                if u[n] * left < needed:
                    support[i, j] = True
                    needed -= 1
                left -= 1
                n += 1
