# What examples/attention.c must print, from the formula, in double precision, one weight at a time.
BEGIN {
    n = split("0 3 5", offset, " ") # two sequences
    pairs = 0
    for (s = 1; s < n; s++)
        for (i = offset[s]; i < offset[s + 1]; i++) {
            max = -1e30
            for (j = offset[s]; j <= i; j++) {
                pairs++
                score[j] = 0
                for (c = 0; c < 4; c++) score[j] += sin(i + 2 * c) * cos(3 * j + c)
                score[j] /= sqrt(4)
                if (score[j] > max) max = score[j]
            }
            sum = out[i] = 0
            for (j = offset[s]; j <= i; j++) sum += exp(score[j] - max)
            for (j = offset[s]; j <= i; j++) {
                weight = exp(score[j] - max) / sum
                out[i] += weight * (j + 1)
                dv[j] += weight # d out is 1 everywhere
            }
            lse[i] = max + log(sum)
        }
    printf "%d pairs of a query and a key it sees\n", pairs
    for (i = 0; i < 5; i++) printf "row %d: out %.4f  log-sum-exp %.4f  dv %.4f\n", i, out[i], lse[i], dv[i]
}
